/**
 * Before an answer that ends its connection goes out, the rest of the request's body is read and thrown away.
 * A socket that closes with unread bytes in it is reset, and a client that writes all before it reads would
 * lose the answer with it. Bounded, so that nobody can keep a refused request alive by writing on.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'

const mostDroppedBytes = 16 * 1024 * 1024
const longestDropMs = 5_000

export function takeWholeBodies(app: FastifyInstance): void {
  app.addHook('onSend', async (request, reply) => {
    const { raw } = request
    const closes = reply.getHeader('connection') === 'close' || !reply.raw.shouldKeepAlive
    if (closes && !raw.complete && !raw.readableEnded) await dropRest(raw)
  })
}

/** Resolves when the body has ended, the caller has gone, or enough was read. */
function dropRest(body: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    let dropped = 0
    const finish = (): void => {
      clearTimeout(limit)
      body.off('data', count).off('end', finish).off('close', finish).off('error', finish)
      resolve()
    }
    const count = (chunk: Buffer): void => {
      dropped += chunk.length
      if (dropped > mostDroppedBytes) finish()
    }
    const limit = setTimeout(finish, longestDropMs)
    body.on('data', count).on('end', finish).on('close', finish).on('error', finish).resume()
  })
}
