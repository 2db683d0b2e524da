"""Where candidates are compiled and measured: in processes of this machine, or on a Dask cluster."""
