/**
 * Connections on which nothing was ever asked: browsers and HTTP clients open some ahead of need. Node counts
 * them as busy, so that a stop would wait for each until its headers are overdue; here they are known, and
 * ended when the server closes.
 */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Answers what ends them. */
export function watchSilentConnections({ server }: FastifyInstance): () => void {
  const silent = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
  })
  server.on('request', ({ socket }: { readonly socket: Socket }) => void silent.delete(socket))
  return () => {
    for (const socket of silent) socket.destroy()
  }
}
