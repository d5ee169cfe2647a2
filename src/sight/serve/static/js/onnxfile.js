// The metadata of an .onnx file, which onnxruntime-web keeps to itself: entries 14 of the outermost message of its
// protobuf, each with a key (1) and a value (2).

const METADATA = 14,
  KEY = 1,
  VALUE = 2;
const VARINT = 0,
  EIGHT = 1,
  SIZED = 2,
  FOUR = 5;
const BROKEN = "Expected an .onnx file, got something else; choose one written by sight export --fused.";

export function metadata(data) {
  const found = {};
  for (const [field, part] of fields(data)) {
    if (field !== METADATA) continue;
    const pair = new Map(fields(part));
    const text = new TextDecoder();
    found[text.decode(pair.get(KEY))] = text.decode(pair.get(VALUE));
  }
  return found;
}

function* fields(data) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (at >= data.length || scale > 2 ** 63) throw new Error(BROKEN);
      const byte = data[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < data.length) {
    const tag = varint(),
      kind = tag % 8;
    let length = { [EIGHT]: 8, [FOUR]: 4 }[kind];
    if (kind === VARINT) (varint(), (length = 0));
    else if (kind === SIZED) length = varint();
    if (length === undefined || at + length > data.length) throw new Error(BROKEN);
    yield [Math.floor(tag / 8), data.subarray(at, at + length)];
    at += length;
  }
}
