// Drives servers by one of the two TypeScript clients, `sdk1` or `client2`. Reads
// {"targets": [{"command": [...]} | {"url": ..., "revision"?: ...}], "calls": [[tool, arguments], ...]} from stdin and
// prints one JSON array: for each target its revision, and for each call the result or the error that the client gave.
import { text } from "node:stream/consumers";

const INFO = { name: "interop", version: "1" };

const KINDS = {
  async sdk1() {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return { StdioClientTransport, StreamableHTTPClientTransport, client: () => new Client(INFO) };
  },
  async client2() {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const options = (revision) =>
      revision === "newest"
        ? { versionNegotiation: { mode: "auto" } }
        : revision && { supportedProtocolVersions: [revision] };
    return { StdioClientTransport, StreamableHTTPClientTransport, client: (revision) => new Client(INFO, options(revision)) };
  },
};

const kind = await KINDS[process.argv[2]]();

async function converse({ command, url, revision }, calls) {
  const client = kind.client(revision);
  const transport = url
    ? new kind.StreamableHTTPClientTransport(new URL(url))
    : new kind.StdioClientTransport({ command: command[0], args: command.slice(1), env: process.env, stderr: "ignore" });
  let negotiated;
  // Transports are told the revision; of the older client, only they know it.
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    negotiated = version;
    tell?.(version);
  };
  await client.connect(transport, { timeout: 240_000 }); // on a busy machine servers start slowly
  await client.listTools(); // from here on results are validated against the output schemas
  const answers = [];
  for (const [name, args] of calls) {
    try {
      answers.push({ result: await client.callTool({ name, arguments: args }) });
    } catch (error) {
      const { code, message, data } = error;
      answers.push({ error: { type: error.constructor.name, code, message, data } });
    }
  }
  await client.close();
  return { revision: negotiated, answers };
}

const { targets, calls } = JSON.parse(await text(process.stdin));
const conversations = [];
for (const target of targets) conversations.push(await converse(target, calls));
console.log(JSON.stringify(conversations));
