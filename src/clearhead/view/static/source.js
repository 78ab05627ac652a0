// Sources: who answers the questions of the screen. ask(op, args, {signal}) → {head, data: ArrayBuffer}.

/** One answer on the wire: length of the head (u32, little-endian), the head as JSON, raw bytes. */
function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  return { head, data: buffer.slice(4 + length) };
}

/** Answers of `clearhead serve`. */
function httpSource({ base = "api/", token = "" } = {}) {
  const headers = { "Content-Type": "application/json", "X-Clearhead": token };
  return {
    async ask(op, args = {}, { signal } = {}) {
      const reply = await reach(base + op, { method: "POST", headers, body: JSON.stringify(args), signal });
      if (!reply.ok) throw new Error(await reasonOf(reply));
      return unpack(await reply.arrayBuffer());
    },
  };
}

async function reach(address, request) {
  try {
    return await fetch(address, request);
  } catch (error) {
    if (request.signal?.aborted) throw error;
    throw new Error("The server does not answer; it may have been stopped.");
  }
}

async function reasonOf(reply) {
  try {
    return (await reply.json()).error;
  } catch {
    return `The server answered ${reply.status}.`;
  }
}

/** Answers through a notebook's channel (an anywidget model). Replies may overtake, and other views hear them too. */
function widgetSource(model) {
  const waiting = new Map();
  const mine = Math.random().toString(36).slice(2);
  let last = 0;
  const receive = (message, buffers) => {
    const call = waiting.get(message.id);
    if (!waiting.delete(message.id)) return;
    if (message.error) call.reject(new Error(message.error));
    else call.resolve({ head: message.head, data: bytesOfBuffer(buffers?.[0]) });
  };
  const abandon = (id, reject) => {
    if (!waiting.delete(id)) return;
    model.send({ id, cancel: true });
    reject(new DOMException("no longer wanted", "AbortError"));
  };
  model.on("msg:custom", receive);
  return {
    ask: (op, args = {}, { signal } = {}) =>
      new Promise((resolve, reject) => {
        const id = `${mine}:${++last}`;
        waiting.set(id, { resolve, reject });
        signal?.addEventListener("abort", () => abandon(id, reject));
        model.send({ id, op, args });
      }),
    dispose: () => model.off("msg:custom", receive),
  };
}

/** An answer's numbers. */
const floatsOf = (answer) => new Float32Array(answer.data);

/** Hosts hand over an ArrayBuffer or a view of one. */
function bytesOfBuffer(buffer) {
  if (buffer === undefined) return new ArrayBuffer(0);
  if (!ArrayBuffer.isView(buffer)) return buffer;
  return buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength);
}
