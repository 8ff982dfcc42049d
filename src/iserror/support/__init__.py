"""What every other room stands on: it knows nothing of this library's failures, calls or logs."""
