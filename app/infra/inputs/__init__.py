"""What people and programs send becomes typed values, or a sentence at its field: JSON bodies, and addresses.

Another kind of input that more than one door takes is one module here; it raises BadInput and knows no request.
"""
