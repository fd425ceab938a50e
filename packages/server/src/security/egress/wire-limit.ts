/**
 * A limit on what one call may receive in all, whatever it is to HTTP: framing, extensions of chunks and
 * interim responses count for nothing in the body, so that a target could pour them for ever. A call begins
 * with what is written for it; the connection is destroyed where more than the limit comes before the next.
 */
import type { Socket } from 'node:net'

/** What has more of it than this, in chunks of one byte each, is not a response that anybody needs. */
export const wireShare = 8

export class WireLimitError extends Error {
  readonly code = 'EGRESS_WIRE_LIMIT'

  constructor() {
    super('more came than a call may receive')
    this.name = 'WireLimitError'
  }
}

export function limitWire(socket: Socket, maxBytes: number): void {
  const read = socket.read.bind(socket)
  let writtenBefore = -1
  let received = 0
  socket.read = (size?: number): unknown => {
    const chunk: unknown = read(size)
    if (!(chunk instanceof Uint8Array)) return chunk
    if (socket.bytesWritten !== writtenBefore) received = 0
    writtenBefore = socket.bytesWritten
    received += chunk.length
    if (received > maxBytes) socket.destroy(new WireLimitError())
    return chunk
  }
}
