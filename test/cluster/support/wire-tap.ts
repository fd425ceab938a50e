/**
 * A port in front of a Postgres that listens in: it passes every byte on, and notes of what clients send the
 * names of prepared statements and the plain queries. It cannot read through TLS.
 *
 *   startup message   length (4, itself included), payload   comes first, once
 *   every other one   type (1), length (4), payload          `P` prepares (name, text), `Q` is a plain query
 */
import { connect, createServer } from 'node:net'
import type { AddressInfo, NetConnectOpts, Socket } from 'node:net'

export interface WireTap {
  readonly port: number
  /** Of each Parse message, the name; empty for an unnamed statement. */
  readonly prepared: string[]
  readonly queries: string[]
  readonly close: () => Promise<void>
}

/** `target` is a host and port, or the path of a socket. */
export async function startWireTap(target: NetConnectOpts): Promise<WireTap> {
  const prepared: string[] = []
  const queries: string[] = []
  const sockets = new Set<Socket>()
  const note = (type: string, payload: Buffer): void => {
    const first = payload.subarray(0, payload.indexOf(0)).toString('utf8')
    if (type === 'P') prepared.push(first)
    if (type === 'Q') queries.push(first)
  }
  const server = createServer((client) => {
    const upstream = connect(target)
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
    const read = messageReader(note)
    client.on('data', read)
    client.pipe(upstream)
    upstream.pipe(client)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    prepared,
    queries,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

/** Cuts one client's stream into messages; the startup message comes with an empty type. */
function messageReader(note: (type: string, payload: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let typeBytes = 0
  return (chunk) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= typeBytes + 4) {
      const end = typeBytes + rest.readInt32BE(typeBytes)
      if (rest.length < end) return
      note(rest.toString('latin1', 0, typeBytes), rest.subarray(typeBytes + 4, end))
      rest = rest.subarray(end)
      typeBytes = 1
    }
  }
}
