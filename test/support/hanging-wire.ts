// A wire between Belfry and a Postgres that can go silent: from then on nothing passes in either direction and
// new connections are taken but never answered, as with a frozen server or a network that drops everything.
import { createServer, connect as dial, type Socket } from 'node:net'
import type { TestConnection } from './postgres.ts'

export type HangingWire = {
  /** Leads to the same database, over the wire. */
  readonly connection: TestConnection
  readonly hang: () => void
  readonly close: () => Promise<void>
}

export async function openHangingWire(target: TestConnection): Promise<HangingWire> {
  const sockets = new Set<Socket>()
  let hangs = false

  const track = (socket: Socket): Socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    if (hangs) socket.pause()
    return socket
  }
  const isPath = target.host.startsWith('/')
  const server = createServer((near) => {
    track(near)
    if (hangs) return
    const far = track(
      dial(
        isPath
          ? { path: `${target.host}/.s.PGSQL.${target.port}` }
          : { host: target.host, port: target.port },
      ),
    )
    near.on('data', (bytes) => far.write(bytes))
    far.on('data', (bytes) => near.write(bytes))
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The wire has no port.')
  return {
    connection: { ...target, host: '127.0.0.1', port: address.port },
    hang() {
      hangs = true
      for (const socket of sockets) socket.pause()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
