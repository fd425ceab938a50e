/**
 * Ends connections when the server closes. Node ends those that are idle at that moment and waits for all
 * others, also where nothing is going to come:
 *
 *   - nothing was ever asked: browsers and HTTP clients open some ahead of need, and Node counts them as busy
 *   - an answer was under way, and the connection is kept alive behind it: for a minute and more
 *   - a request that never comes to an end, or an answer that nobody reads: Node's own limits end with the
 *     listening
 *
 * Here the first end at once, the second with their answer, and whatever is left when the time is over.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Answers what begins to end them; to be called before the server is closed. */
export function watchConnections({ server }: FastifyInstance, closeWithinMs: number): () => void {
  /** What is asked and not answered on each; undefined: nothing was asked yet. */
  const open = new Map<Socket, number | undefined>()
  let closing = false
  server.on('connection', (socket: Socket) => {
    // between the begin of the close and its end some may be accepted still
    if (closing) return void socket.destroy()
    open.set(socket, undefined)
    socket.once('close', () => open.delete(socket))
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    open.set(socket, (open.get(socket) ?? 0) + 1)
    response.once('close', () => {
      const left = (open.get(socket) ?? 1) - 1
      if (socket.destroyed) return
      open.set(socket, left)
      // what was written is on its way; more was not asked
      if (closing && left === 0) socket.destroySoon()
    })
  })
  return () => {
    if (closing) return
    closing = true
    for (const [socket, asked] of open) if (asked === undefined) socket.destroy()
    const timer = setTimeout(() => {
      for (const socket of open.keys()) socket.destroy()
    }, closeWithinMs).unref()
    server.once('close', () => clearTimeout(timer))
  }
}
