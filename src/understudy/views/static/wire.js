// Columns of numbers as bytes, as `views/wire.py` packs them.

const KINDS = { Uint8Array, Int32Array, Float32Array };

// 4 bytes: the length of the head; the head, in JSON; arrays at multiples of 8 bytes.
export function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const begin = Math.ceil((4 + length) / 8) * 8;
  const arrays = {},
    shapes = {};
  for (const { name, kind, shape, offset } of head.fields) {
    const size = shape.reduce((a, b) => a * b, 1);
    arrays[name] = new KINDS[kind](buffer, begin + offset, size);
    shapes[name] = shape;
  }
  return { ...head, arrays, shapes };
}
