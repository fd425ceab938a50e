/**
 * Takes apart what an attached container says: frames of an eight-byte head (stream, length) and the bytes of
 * one of its two streams. Frames may come in any pieces.
 */
const headBytes = 8

export type StreamName = 'stdout' | 'stderr'

export interface FrameReader {
  push(chunk: Buffer): void
}

/** `take` gets each piece at once; `fault`, once, where the bytes are no frames. */
export function createFrameReader(
  take: (stream: StreamName, bytes: Buffer) => void,
  fault: () => void,
): FrameReader {
  let head = Buffer.alloc(0)
  let stream: StreamName = 'stdout'
  let left = 0
  let broken = false

  function readHead(chunk: Buffer): Buffer {
    const need = headBytes - head.length
    head = Buffer.concat([head, chunk.subarray(0, need)])
    if (head.length === headBytes) {
      const [kind = 0] = head
      if (kind > 2) {
        broken = true
        fault()
      }
      stream = kind === 2 ? 'stderr' : 'stdout'
      left = head.readUInt32BE(4)
      head = Buffer.alloc(0)
    }
    return chunk.subarray(need)
  }

  return {
    push(chunk) {
      let rest = chunk
      while (rest.length > 0 && !broken) {
        if (left === 0) {
          rest = readHead(rest)
          continue
        }
        const part = rest.subarray(0, left)
        left -= part.length
        rest = rest.subarray(part.length)
        take(stream, part)
      }
    },
  }
}
