"""Other ways to draft: an automatic K, and rules that stop a draft early."""
