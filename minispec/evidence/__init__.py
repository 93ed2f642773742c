"""Is it right, how fast is it."""
