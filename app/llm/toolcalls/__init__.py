"""Tool calls that a model wrote into its text (product.md K8), and the tolerant reader of their arguments.

`notations.NOTATIONS` is the one table of what is recognised; each row names a small reader of jsonlike, tagged, python or
harmony. To add a notation: a row there, and a reader when none of those fits. Imports llm.base only.
"""
