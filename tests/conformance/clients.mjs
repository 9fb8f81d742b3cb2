// Lists, calls, reads and prompts with an official TypeScript client: node clients.mjs VERSION MODE URL
const [version, mode, url] = process.argv.slice(2);

async function connect() {
  if (version === "v1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "v1", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const options = mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {};
  const client = new Client({ name: "v2", version: "1" }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

const client = await connect();
const progress = [];
const seen = {
  server: client.getServerVersion(),
  tools: (await client.listTools()).tools.map((one) => one.name),
  called: await client.callTool({ name: "test_simple_text", arguments: {} }),
  streamed: await client.callTool(
    { name: "test_tool_with_progress", arguments: {} },
    ...(version === "v1" ? [undefined] : []),
    { onprogress: (one) => progress.push(one.progress) },
  ),
  progress,
  resources: (await client.listResources()).resources.map((one) => one.uri),
  templates: (await client.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate),
  read: await client.readResource({ uri: "test://template/7/data" }),
  prompts: (await client.listPrompts()).prompts.map((one) => one.name),
  prompt: await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } }),
  completed: await client.complete({
    ref: { type: "ref/prompt", name: "test_prompt_with_arguments" },
    argument: { name: "arg1", value: "par" },
  }),
};
console.log(JSON.stringify(seen));
await client.close();
