import sys
from pathlib import Path

# The benchmarks are no part of the package: they are run, and imported, from the root of the repository.
sys.path.insert(0, str(Path(__file__).parents[2]))
