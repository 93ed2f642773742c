"""Any accept rule, from anybody: is it lossless?"""
