/**
 * Reads a response body: keeps its beginning, counts and drops the rest, and stops at a hard limit, so that
 * no target can fill memory or hold a connection by volume. Bytes are taken as they come; nothing is
 * inflated.
 */

export interface Capture {
  readonly kept: () => Uint8Array
  readonly bytes: () => number
  /**
   * Reads to the end; false if the hard limit was passed, after which the source is destroyed. Rejects as the
   * source.
   */
  read(source: AsyncIterable<Uint8Array>): Promise<boolean>
}

export function createCapture(keepBytes: number, limitBytes: number): Capture {
  const chunks: Uint8Array[] = []
  let keptBytes = 0
  let bytes = 0

  function add(chunk: Uint8Array): void {
    bytes += chunk.length
    const room = keepBytes - keptBytes
    if (room <= 0) return
    // Copied, because a slice would keep the whole chunk alive.
    chunks.push(Uint8Array.from(chunk.subarray(0, room)))
    keptBytes += Math.min(room, chunk.length)
  }

  return {
    kept: () => Buffer.concat(chunks),
    bytes: () => bytes,
    async read(source) {
      for await (const chunk of source) {
        add(chunk)
        // Leaving the loop destroys the source, and with it the connection.
        if (bytes > limitBytes) return false
      }
      return true
    },
  }
}
