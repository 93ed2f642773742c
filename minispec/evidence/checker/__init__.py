"""Any acceptance rule, from anybody: is it lossless?"""
