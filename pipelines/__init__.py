"""From winograd ops to kernels: schedules, kernel generators and the order of the passes."""
