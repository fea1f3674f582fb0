// The first rows of an Arrow stream, as text. Types that rows of Spark have; of others the name is shown.
// The format is the columnar one of Apache Arrow, in FlatBuffers' tables (Message.fbs, Schema.fbs).

const UNITS = [1, 1e3, 1e6, 1e9]; // of times: in a second
const DAY_MS = 86_400_000;
const utf8 = new TextDecoder();

// ── FlatBuffers: a table's field by its number, or what is said where it is not there ───────────
class Table {
  constructor(view, at) {
    this.view = view;
    this.at = at;
    this.slots = at - view.getInt32(at, true);
  }

  place(field) {
    const slot = 4 + 2 * field;
    const offset = slot < this.view.getUint16(this.slots, true) ? this.view.getUint16(this.slots + slot, true) : 0;
    return offset ? this.at + offset : 0;
  }

  number(field, read, otherwise) {
    const at = this.place(field);
    return at ? Number(this.view[read](at, true)) : otherwise;
  }

  table(field) {
    const at = this.place(field);
    return at ? new Table(this.view, at + this.view.getUint32(at, true)) : null;
  }

  // Where a vector begins, and its length.
  vector(field) {
    const at = this.place(field);
    if (!at) return [0, 0];
    const start = at + this.view.getUint32(at, true);
    return [start + 4, this.view.getUint32(start, true)];
  }

  tables(field) {
    const [start, length] = this.vector(field);
    return Array.from({ length }, (_, index) => new Table(this.view, start + 4 * index + this.view.getUint32(start + 4 * index, true)));
  }

  text(field) {
    const [start, length] = this.vector(field);
    return utf8.decode(new Uint8Array(this.view.buffer, this.view.byteOffset + start, length));
  }

  // Pairs of 64-bit numbers: nodes and buffers.
  pairs(field) {
    const [start, length] = this.vector(field);
    const long = (at) => Number(this.view.getBigInt64(at, true));
    return Array.from({ length }, (_, index) => [long(start + 16 * index), long(start + 16 * index + 8)]);
  }
}

const SCHEMA = 1;
const BATCH = 3;

function* messages(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  while (at + 8 <= bytes.length) {
    if (view.getUint32(at, true) === 0xffffffff) at += 4;
    const length = view.getUint32(at, true);
    at += 4;
    if (length === 0) return;
    const table = new Table(view, at + view.getUint32(at, true));
    const body = at + length;
    yield { kind: table.number(1, "getUint8", 0), header: table.table(2), body };
    at = body + table.number(3, "getBigInt64", 0);
  }
}

function fieldOf(table) {
  return { name: table.text(0), type: table.number(2, "getUint8", 0), of: table.table(3), children: table.tables(5).map(fieldOf) };
}

// ── columns: each takes its nodes and buffers in order, and gives the text of a row ──────────────
function column(field, parts) {
  parts.nodes.shift();
  if (field.type === 1) return () => null;
  const valid = parts.buffer();
  const known = (read) => (row) => (valid.byteLength && !((valid.getUint8(row >> 3) >> (row & 7)) & 1) ? null : read(row));
  const make = COLUMNS[field.type];
  if (!make) throw new Error(`the column ${field.name} is of a type that is not shown here`);
  return known(make(field, parts));
}

const COLUMNS = {
  2: ({ of }, parts) => {
    const bits = of.number(0, "getInt32", 32);
    const read = bits === 64 ? (of.number(1, "getUint8", 0) ? "getBigInt64" : "getBigUint64") : `get${of.number(1, "getUint8", 0) ? "Int" : "Uint"}${bits}`;
    const data = parts.buffer();
    return (row) => String(data[read]((row * bits) / 8, true));
  },
  3: ({ of }, parts) => {
    const single = of.number(0, "getInt16", 0) === 1;
    const data = parts.buffer();
    return (row) => String(single ? Number(data.getFloat32(row * 4, true).toPrecision(7)) : data.getFloat64(row * 8, true));
  },
  4: (_, parts) => binary(parts, 4),
  5: (_, parts) => text(parts, 4),
  6: (_, parts) => {
    const data = parts.buffer();
    return (row) => String(Boolean((data.getUint8(row >> 3) >> (row & 7)) & 1));
  },
  7: ({ of }, parts) => {
    const scale = of.number(1, "getInt32", 0);
    const data = parts.buffer();
    return (row) => decimal((data.getBigInt64(row * 16 + 8, true) << 64n) | data.getBigUint64(row * 16, true), scale);
  },
  8: ({ of }, parts) => {
    const inDays = of.number(0, "getInt16", 1) === 0;
    const data = parts.buffer();
    return (row) => dated(inDays ? data.getInt32(row * 4, true) * DAY_MS : Number(data.getBigInt64(row * 8, true))).slice(0, -14);
  },
  10: ({ of }, parts) => {
    const unit = UNITS[of.number(0, "getInt16", 0)];
    const zone = of.place(1) ? " UTC" : "";
    const data = parts.buffer();
    return (row) => {
      const value = data.getBigInt64(row * 8, true);
      const seconds = (value - (((value % BigInt(unit)) + BigInt(unit)) % BigInt(unit))) / BigInt(unit);
      const rest = String(value - seconds * BigInt(unit)).padStart(String(unit).length - 1, "0").replace(/0+$/, "");
      return `${dated(Number(seconds) * 1_000).replace("T", " ").slice(0, -5)}${rest ? `.${rest}` : ""}${zone}`;
    };
  },
  12: ({ children }, parts) => list(children[0], parts, 4, (shown) => `[${shown.join(", ")}]`),
  13: ({ children }, parts) => {
    const columns = children.map((child) => [child.name, column(child, parts)]);
    return (row) => `{${columns.map(([name, read]) => `${name}: ${read(row)}`).join(", ")}}`;
  },
  17: ({ children }, parts) => list(children[0], parts, 4, (shown) => `{${shown.map((each) => each.replace(/^\{key: (.*), value: (.*)\}$/s, "$1: $2")).join(", ")}}`),
  18: ({ of }, parts) => {
    const unit = UNITS[of.number(0, "getInt16", 1)];
    const data = parts.buffer();
    return (row) => `${Number(data.getBigInt64(row * 8, true)) / unit} s`;
  },
  19: (_, parts) => binary(parts, 8),
  20: (_, parts) => text(parts, 8),
  21: ({ children }, parts) => list(children[0], parts, 8, (shown) => `[${shown.join(", ")}]`),
};

const dated = (ms) => {
  const then = new Date(ms);
  return Number.isNaN(then.getTime()) ? `${ms} ms since 1970T00:00:00.000Z` : then.toISOString();
};

function ranges(parts, width) {
  const offsets = parts.buffer();
  const at = width === 4 ? (row) => offsets.getInt32(row * 4, true) : (row) => Number(offsets.getBigInt64(row * 8, true));
  return (row) => [at(row), at(row + 1)];
}

function slices(parts, width) {
  const range = ranges(parts, width);
  const data = parts.buffer();
  return (row) => {
    const [from, to] = range(row);
    return new Uint8Array(data.buffer, data.byteOffset + from, to - from);
  };
}

function text(parts, width) {
  const slice = slices(parts, width);
  return (row) => utf8.decode(slice(row));
}

function binary(parts, width) {
  const slice = slices(parts, width);
  return (row) => Array.from(slice(row), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function list(child, parts, width, joined) {
  const range = ranges(parts, width);
  const read = column(child, parts);
  return (row) => {
    const [from, to] = range(row);
    return joined(Array.from({ length: to - from }, (_, index) => read(from + index) ?? "null"));
  };
}

function decimal(value, scale) {
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, "0");
  const shown = scale > 0 ? `${digits.slice(0, -scale)}.${digits.slice(-scale)}` : digits;
  return value < 0n ? `-${shown}` : shown;
}

// Names of the columns, and the first rows: each a list of texts, null for what is null. Raises for what it can't read.
export function firstRows(bytes, limit) {
  let fields = [];
  const rows = [];
  for (const { kind, header, body } of messages(bytes)) {
    if (kind === SCHEMA) fields = header.tables(1).map(fieldOf);
    if (kind !== BATCH) continue;
    if (header.place(3)) throw new Error("these rows are compressed");
    const buffers = header.pairs(2);
    const parts = {
      nodes: header.pairs(1),
      buffer: () => {
        const [offset, length] = buffers.shift();
        return new DataView(bytes.buffer, bytes.byteOffset + body + offset, length);
      },
    };
    const columns = fields.map((field) => column(field, parts));
    const length = header.number(0, "getBigInt64", 0);
    for (let row = 0; row < length && rows.length < limit; row++) rows.push(columns.map((read) => read(row)));
    if (rows.length >= limit) break;
  }
  return { names: fields.map((field) => field.name), rows };
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
