"""Other ways to draft: an automatic K, rules that stop a draft early, look-ups in the text."""
