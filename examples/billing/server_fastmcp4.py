"""The billing example on `FastMCP` of the package fastmcp 4.x."""

from fastmcp import FastMCP
from tools import setup

if __name__ == "__main__":
    server = FastMCP("billing")
    options = setup(server)
    if options.http:
        server.run("http", show_banner=False, host="127.0.0.1", port=options.port)
    else:
        server.run("stdio", show_banner=False)
