"""`torch.compile(model, backend="winograd")`: graphs in parts for this compiler and the rest."""
