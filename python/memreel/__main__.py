"""`python -m memreel` is the program `memreel`."""

import sys

from memreel._program import main

sys.exit(main())
