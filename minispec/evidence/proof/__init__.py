"""The shipped loop against the target alone: every branch, and samples."""
