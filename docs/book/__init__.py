"""What only the book needs: its tables, its handouts, and one example of every figure."""
