"""`python -m greenroom`, the same as `greenroom`."""

import sys

from greenroom.cli import main

sys.exit(main())
