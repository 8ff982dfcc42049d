"""The billing example on `MCPServer` of the official SDK, mcp 2.x."""

from mcp.server.mcpserver import MCPServer
from tools import setup

if __name__ == "__main__":
    server = MCPServer("billing")
    options = setup(server)
    if options.http:
        server.run("streamable-http", host="127.0.0.1", port=options.port)
    else:
        server.run("stdio")
