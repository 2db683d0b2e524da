"""What every pass has: a name with options, units that failures leave out, remarks, and the annotations of
convolutions by which passes hand on what they decided.
"""
