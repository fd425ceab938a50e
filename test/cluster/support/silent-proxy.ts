/**
 * A port in front of a Postgres that can go silent, as a firewall does that forgot a connection: nothing is
 * passed on any more, in either direction, and nobody is told. Both ends go on believing in it.
 */
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

export interface SilentProxy {
  readonly port: number
  /** Connections that are passed on. */
  readonly live: () => number
  /** Those that are open go silent for good; new ones are passed on, or with `all` are silent as well. */
  readonly silence: (which: 'open' | 'all') => void
  /** New connections are passed on again; those that went silent stay so. */
  readonly speak: () => void
  readonly close: () => Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly server: Socket
}

export async function startSilentProxy(target: { host: string; port: number }): Promise<SilentProxy> {
  const pairs = new Set<Pair>()
  const sockets = new Set<Socket>()
  let silent = false

  function keep(socket: Socket): void {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
  }

  function pass(pair: Pair): void {
    pairs.add(pair)
    const { client, server } = pair
    client.pipe(server)
    server.pipe(client)
    const end = (): void => {
      // of one that is silent, neither end hears that the other is gone
      if (!pairs.delete(pair)) return
      client.destroy()
      server.destroy()
    }
    for (const each of [client, server]) each.on('close', end)
  }

  const proxy = createServer({ allowHalfOpen: true }, (client) => {
    keep(client)
    if (silent) return void client.resume()
    const server = connect({ ...target, allowHalfOpen: true })
    keep(server)
    pass({ client, server })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => proxy.once('listening', resolve))

  return {
    port: (proxy.address() as AddressInfo).port,
    live: () => pairs.size,
    silence(which) {
      silent = which === 'all'
      for (const { client, server } of pairs) {
        client.unpipe()
        server.unpipe()
        // what still comes is taken and thrown away
        client.resume()
        server.resume()
      }
      pairs.clear()
    },
    speak() {
      silent = false
    },
    close: () =>
      new Promise((resolve) => {
        proxy.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
