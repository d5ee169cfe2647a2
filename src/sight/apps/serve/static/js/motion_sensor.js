// The motion sensor of a phone, converted to the channels and units of a model.

const G = 9.80665;
const ACCELERATION = { g: 1 / G, "m/s2": 1, "m/s^2": 1, "m/s²": 1 };
const ROTATION = { "deg/s": 1, "rad/s": Math.PI / 180 };

// From the axes of the phone (x right, y up, z out of the screen) to those of the sensor, by how the phone is worn.
export const MOUNTINGS = {
  // Frame of the thigh of the synthetic wearers: x down, y left, z forward.
  pocket: ([x, y, z]) => [-y, x, z],
  plain: (axes) => axes,
};

// How to read each channel of a model from the sensor; throws if the model needs anything else.
export function plan(card) {
  const used = new Set();
  return card.channels.map((channel, c) => {
    const axis = "xyz".indexOf(channel.slice(-1).toLowerCase());
    const unit = card.units[c];
    const kind = unit in ACCELERATION ? "acceleration" : unit in ROTATION ? "rotation" : null;
    if (axis < 0 || !kind || used.has(kind + axis)) {
      throw new Error(`A phone cannot measure the channel ${channel} in ${unit}; use a recording for this model.`);
    }
    used.add(kind + axis);
    return { kind, axis, scale: (ACCELERATION[unit] ?? 1) * (ROTATION[unit] ?? 1) };
  });
}

export const isAvailable = () => "DeviceMotionEvent" in globalThis && globalThis.isSecureContext;
export const needsPermission = () => typeof globalThis.DeviceMotionEvent?.requestPermission === "function";

// Devices of Apple report gravity with the opposite sign of the standard.
const invertsGravity = () =>
  /iPhone|iPad|iPod/.test(navigator.userAgent) || (/Mac/.test(navigator.userAgent) && navigator.maxTouchPoints > 1);

// Ask for permission where needed (iOS), then pass each sample to `onSample`; returns a function that stops.
export async function listen(card, mounting, onSample) {
  const channels = plan(card);
  const turn = MOUNTINGS[mounting];
  if (needsPermission() && (await DeviceMotionEvent.requestPermission()) !== "granted") {
    throw new Error("Motion data were not allowed; allow them in the settings of the browser and press Start again.");
  }
  const sign = invertsGravity() ? -1 : 1;
  const onMotion = ({ accelerationIncludingGravity: acceleration, rotationRate: rotation, timeStamp }) => {
    const axes = {
      acceleration: turn([acceleration?.x, acceleration?.y, acceleration?.z].map((value) => sign * (value ?? NaN))),
      rotation: turn([rotation?.alpha, rotation?.beta, rotation?.gamma].map((value) => value ?? NaN)),
    };
    const values = channels.map(({ kind, axis, scale }) => axes[kind][axis] * scale);
    onSample(values, timeStamp / 1000);
  };
  addEventListener("devicemotion", onMotion);
  return () => removeEventListener("devicemotion", onMotion);
}
