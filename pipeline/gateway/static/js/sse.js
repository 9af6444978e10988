/** Server-Sent Events out of a stream of text, as the HTML standard parses them. */

/** Gives each `{event, data, id}` of a fetch body; ends when the body does. */
export async function* events(body) {
  const parser = new Parser();
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* parser.feed(value);
    }
  } finally {
    reader.cancel().catch(() => {}); // the connection may be gone already
  }
}

/** Sans-IO: `feed` text in any pieces. An event that is not whole yet waits. */
export class Parser {
  constructor() {
    this._pieces = [];
    this._carriage = false;
    this._event = fresh();
  }

  feed(text) {
    if (this._carriage && text.startsWith("\n")) text = text.slice(1);
    this._carriage = text.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    const found = [];
    lines.forEach((line, index) => {
      this._pieces.push(line);
      if (index === lines.length - 1) return; // not ended yet
      const event = this._line(this._pieces.join(""));
      this._pieces = [];
      if (event) found.push(event);
    });
    return found;
  }

  _line(line) {
    if (line === "") {
      const event = this._event;
      this._event = { ...fresh(), id: event.id };
      return event.data === null ? null : event;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this._event.data = this._event.data === null ? value : `${this._event.data}\n${value}`;
    if (name === "event") this._event.event = value;
    if (name === "id" && !value.includes("\0")) this._event.id = value;
    return null;
  }
}

const fresh = () => ({ event: "message", data: null, id: null });
