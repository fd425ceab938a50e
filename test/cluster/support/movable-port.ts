/**
 * An address that outlives what answers behind it, as a load balancer or a floating address does: connections
 * are passed on to a target that can be changed. Those that were open to the one before are cut.
 */
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

export interface Target {
  readonly host: string
  readonly port: number
}

export interface MovablePort {
  readonly port: number
  readonly moveTo: (target: Target) => void
  readonly close: () => Promise<void>
}

export async function startMovablePort(first: Target, host = '127.0.0.1'): Promise<MovablePort> {
  const sockets = new Set<Socket>()
  let target = first
  const keep = (socket: Socket): void => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
  }
  const server = createServer((client) => {
    const behind = connect(target)
    for (const each of [client, behind]) keep(each)
    client.pipe(behind).pipe(client)
    client.on('close', () => behind.destroy())
    behind.on('close', () => client.destroy())
  }).listen(0, host)
  await new Promise((resolve, reject) => server.once('listening', resolve).once('error', reject))
  const cut = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    moveTo(next) {
      target = next
      cut()
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        cut()
      }),
  }
}
