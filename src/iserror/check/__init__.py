"""`iserror check`: a server's tool errors, proved against the contract by a client that knows no manners.

Not imported by `iserror` itself. Tables, SARIF and JUnit need the extra `iserror[check]`.
"""
