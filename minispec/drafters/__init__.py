"""Other ways to draft: an automatic K, stop rules, look-ups in the text, and the target itself."""
