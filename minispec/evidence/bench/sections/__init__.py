"""The sections of the bench, one file each; `section` says what a section is, `run` runs them."""
