// Reads the metadata of an .onnx file, which onnxruntime-web does not expose: the entries of field 14 of the outermost
// protobuf message, each with a key (field 1) and a value (field 2).

const METADATA = 14;
const KEY = 1;
const VALUE = 2;
const VARINT = 0;
const EIGHT_BYTES = 1;
const SIZED = 2;
const FOUR_BYTES = 5;
const INVALID = "Expected an .onnx file; choose one written by sight export --fused.";

export function readMetadata(data) {
  const decode = (bytes) => new TextDecoder().decode(bytes);
  const entries = [...fields(data)].filter(([field]) => field === METADATA).map(([, part]) => new Map(fields(part)));
  return Object.fromEntries(entries.map((entry) => [decode(entry.get(KEY)), decode(entry.get(VALUE))]));
}

function* fields(data) {
  let offset = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (offset >= data.length || scale > 2 ** 63) throw new Error(INVALID);
      const byte = data[offset++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (offset < data.length) {
    const tag = varint();
    const kind = tag % 8;
    let length = { [EIGHT_BYTES]: 8, [FOUR_BYTES]: 4 }[kind];
    if (kind === VARINT) (varint(), (length = 0));
    else if (kind === SIZED) length = varint();
    if (length === undefined || offset + length > data.length) throw new Error(INVALID);
    yield [Math.floor(tag / 8), data.subarray(offset, offset + length)];
    offset += length;
  }
}
