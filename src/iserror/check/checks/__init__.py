"""The checks, one module for each group of ids."""
