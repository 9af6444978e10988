/** What one frame makes of a value that is held: pure, and what stays is the very same object. */

/** Where a row stands: the order of the transcript. */
export function order(a, b) {
  return (
    a.anchor_seq - b.anchor_seq ||
    a.anchor_rank - b.anchor_rank ||
    (a.key < b.key ? -1 : Number(a.key > b.key))
  );
}

export const anchor = ({ anchor_seq, anchor_rank, key }) => ({ anchor_seq, anchor_rank, key });

/** Code points of each block's text, as offsets count them; counted once per text. */
const lengths = new WeakMap();

function codePoints(text) {
  let count = text.length;
  for (let at = 0; at < text.length - 1; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      count -= 1;
      at += 1;
    }
  }
  return count;
}

/** The row with the frame's text behind its block; null: it does not fit. */
export function lengthened(row, frame) {
  const block = row.data?.blocks?.[frame.block];
  if (!Array.isArray(row.data?.blocks) || !block || block.type !== frame.block_type) return null;
  const name = frame.block_type === "tool-call" ? "arguments" : "text";
  const text = block[name];
  if (typeof text !== "string") return null;
  const length = lengths.get(block) ?? codePoints(text);
  if (length !== frame.offset) return null;
  const longer = { ...block, [name]: text + frame.text };
  lengths.set(longer, length + codePoints(frame.text));
  const blocks = row.data.blocks.with(frame.block, longer);
  return { ...row, rev: frame.rev, seq: frame.rev, data: { ...row.data, blocks } };
}

/** The surface after its next change; nodes that stay are the same objects. */
export function stepped(surface, change) {
  const { seq, op } = change;
  if (op === "reset") return { generation: 0, as_of_seq: seq, nodes: [] };
  if (op === "amend") return { ...surface, as_of_seq: seq, nodes: amended(surface.nodes, change.targets) };
  const node = { seq, type: change.type, message: change.message };
  if (op === "append") return { ...surface, as_of_seq: seq, nodes: [...surface.nodes, node] };
  const leaving = new Set(change.shadowed);
  const nodes = surface.nodes.filter((kept) => !leaving.has(kept.seq));
  nodes.splice(change.position, 0, node);
  return { generation: change.generation, as_of_seq: seq, nodes };
}

/** The marks that whoever holds a message sets (projection.md §4): images counted depth first. */
function amended(nodes, targets) {
  const marks = new Map(targets.map(({ seq, images }) => [seq, new Set(images)]));
  return nodes.map((node) => {
    const images = marks.get(node.seq);
    return images ? { ...node, message: offloaded(node.message, images, { next: 0 }) } : node;
  });
}

function offloaded(holder, images, count) {
  if (!Array.isArray(holder?.content)) return holder;
  const content = holder.content.map((block) => {
    if (block?.type !== "image") return offloaded(block, images, count);
    return images.has(count.next++) ? { ...block, offloaded: true } : block;
  });
  return { ...holder, content };
}

/** Whether two JSON values are the same. */
export function equal(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b) return false;
  const names = Object.keys(a);
  return (
    Array.isArray(a) === Array.isArray(b) &&
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]))
  );
}
