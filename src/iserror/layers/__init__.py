"""The layers that a call passes, from the host's outermost handler to the tool's function."""
