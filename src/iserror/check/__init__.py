"""`iserror check`: audit a server's tool errors with a client that also sends malformed messages.

`import iserror` doesn't load this package. Tables, SARIF and JUnit need the optional dependencies `iserror[check]`.
"""
