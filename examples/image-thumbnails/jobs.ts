/**
 * Thumbnails of images (PPM, so that nothing has to be installed): work that keeps a processor busy. It gives
 * way to the event loop between rows, so that its signal is heard, and says how far it is.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { setImmediate as breathe } from 'node:timers/promises'
import { defineJob, fail } from 'belfry'
import { z } from 'zod'

interface Image {
  readonly width: number
  readonly height: number
  /** Three bytes a pixel. */
  readonly pixels: Uint8Array
}

export const thumbnail = defineJob({
  name: 'image.thumbnail',
  queue: 'images',
  input: z.object({ from: z.string(), to: z.string(), width: z.int().min(1).max(1_000) }),
  timeoutMs: 120_000,
  async run({ from, to, width }, { signal, heartbeat }) {
    const image = decode(await readFile(from))
    const height = Math.max(1, Math.round((image.height * width) / image.width))
    const pixels = new Uint8Array(width * height * 3)
    for (let y = 0; y < height; y++) {
      shrinkRow(image, pixels, y, width, height)
      if (y % 16 !== 0) continue
      heartbeat({ rows: y, of: height })
      await breathe()
      signal.throwIfAborted()
    }
    await writeFile(to, Buffer.concat([Buffer.from(`P6 ${width} ${height} 255\n`), pixels]))
    return { width, height }
  },
})

/** Each pixel is that in the middle of the part of the image that it stands for. */
function shrinkRow(image: Image, pixels: Uint8Array, y: number, width: number, height: number): void {
  const sourceY = Math.floor(((y + 0.5) * image.height) / height)
  for (let x = 0; x < width; x++) {
    const source = (sourceY * image.width + Math.floor(((x + 0.5) * image.width) / width)) * 3
    pixels.set(image.pixels.subarray(source, source + 3), (y * width + x) * 3)
  }
}

function decode(file: Buffer): Image {
  const header = /^P6\s+(\d+)\s+(\d+)\s+255\s/.exec(file.subarray(0, 64).toString('latin1'))
  if (header === null) fail('this is no PPM image (P6, 255); another attempt would read the same')
  const [all, width, height] = header
  const pixels = file.subarray(all.length)
  const size = { width: Number(width), height: Number(height) }
  if (pixels.length < size.width * size.height * 3) fail('the image is cut off')
  return { ...size, pixels }
}
