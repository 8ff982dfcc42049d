"""`python -m iserror`."""

from iserror.cli import main

raise SystemExit(main())
