// How wide texts are, for drawings, whose texts do not wrap.

export interface Font {
  /** In pixels. */
  size: number;
  weight: number;
}

const context = document.createElement("canvas").getContext("2d");
const family = getComputedStyle(document.body).fontFamily;

/** The width of a text in the page's font, in pixels. */
export function width(text: string, { size, weight }: Font): number {
  if (!context) return text.length * size * 0.6;
  context.font = `${weight} ${size}px ${family}`;
  return context.measureText(text).width;
}

/** As much of a text as there is room for. */
export function fitted(text: string, room: number, font: Font): string {
  if (width(text, font) <= room) return text;
  let length = text.length - 1;
  while (length > 1 && width(`${text.slice(0, length)}…`, font) > room) length -= 1;
  return `${text.slice(0, length)}…`;
}
