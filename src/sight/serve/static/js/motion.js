// The motion sensor of the phone, in the channels and units of a model.

const G = 9.80665;
const ACCELERATION = { g: 1 / G, "m/s2": 1, "m/s^2": 1, "m/s²": 1 };
const ROTATION = { "deg/s": 1, "rad/s": Math.PI / 180 };

// How the phone is worn: its axes (x right, y up, z out of the screen) as axes of the sensor.
export const MOUNTINGS = {
  // The thigh's frame of the synthetic wearers: x down, y left, z forward.
  pocket: ([x, y, z]) => [-y, x, z],
  plain: (axes) => axes,
};

// How to read each channel of a model from the sensor; a model that wants more than one sensor is refused.
export function plan(card) {
  const taken = new Set();
  return card.channels.map((channel, c) => {
    const axis = "xyz".indexOf(channel.slice(-1).toLowerCase()),
      unit = card.units[c];
    const kind = unit in ACCELERATION ? "acceleration" : unit in ROTATION ? "rotation" : null;
    if (axis < 0 || !kind || taken.has(kind + axis)) {
      throw new Error(`A phone cannot give the channel ${channel} in ${unit}; use a recording for this model.`);
    }
    taken.add(kind + axis);
    return { kind, axis, scale: (ACCELERATION[unit] ?? 1) * (ROTATION[unit] ?? 1) };
  });
}

export const available = () => "DeviceMotionEvent" in globalThis && globalThis.isSecureContext;
export const asksFirst = () => typeof globalThis.DeviceMotionEvent?.requestPermission === "function";

// Apple's phones tell the pull of gravity where the standard asks for the force that holds the phone.
const upsideDown = () =>
  /iPhone|iPad|iPod/.test(navigator.userAgent) || (/Mac/.test(navigator.userAgent) && navigator.maxTouchPoints > 1);

// Ask where the system wants to be asked (iOS), then tell each sample to `hear`; returns a function that stops.
export async function listen(card, mounting, hear) {
  const channels = plan(card),
    turned = MOUNTINGS[mounting];
  if (asksFirst() && (await DeviceMotionEvent.requestPermission()) !== "granted") {
    throw new Error("The system did not allow motion data; allow it in the browser's settings and press Start again.");
  }
  const sign = upsideDown() ? -1 : 1;
  const onMotion = (event) => {
    const felt = event.accelerationIncludingGravity,
      spin = event.rotationRate;
    const axes = {
      acceleration: turned([felt?.x, felt?.y, felt?.z].map((value) => sign * (value ?? NaN))),
      rotation: turned([spin?.alpha, spin?.beta, spin?.gamma].map((value) => value ?? NaN)),
    };
    hear(
      channels.map(({ kind, axis, scale }) => axes[kind][axis] * scale),
      event.timeStamp / 1000,
    );
  };
  addEventListener("devicemotion", onMotion);
  return () => removeEventListener("devicemotion", onMotion);
}
