/**
 * Opens the socket. It connects to the addresses that it is given and to nothing else: for a name the
 * resolver hook answers with that very list (there is no second lookup), and a literal host is the list.
 */
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { connectFailure, tlsFailure } from './connect-error.ts'

export interface ResolvedAddress {
  readonly address: string
  readonly family: number
}

export interface DialTarget {
  readonly protocol: 'http:' | 'https:'
  /** Host of the URL, without brackets. */
  readonly host: string
  readonly port: number
  /** Checked; at least one. */
  readonly addresses: readonly ResolvedAddress[]
  /** Client certificate and trusted authorities; undefined: none, and those of the system. */
  readonly secureContext: SecureContext | undefined
}

export type DialCallback = (error: Error | null, socket: Socket | null) => void

/** Answers the socket at once; `done` is called once, when it is ready for HTTP or has failed. */
export type Dial = (target: DialTarget, done: DialCallback) => Socket

/** Between attempts on several addresses of one name. */
const nextAddressMs = 250
const keepAliveMs = 30_000

export const dial: Dial = (target, done) => {
  const { host, port, addresses } = target
  const lookup: LookupFunction = (_host, options, callback) => {
    if (options.all === true) callback(null, [...addresses])
    else callback(null, addresses[0]?.address ?? '', addresses[0]?.family ?? 4)
  }
  const tcp = {
    host,
    port,
    lookup,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: nextAddressMs,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveMs,
  }
  const secure = target.protocol === 'https:'
  const socket = secure ? connectTls({ ...tcp, ...tlsOptions(target) }) : connectTcp(tcp)
  let connected = false
  const place = `${host}:${port}`
  const onError = (error: Error): void => {
    settle(connected && secure ? tlsFailure(error, place) : connectFailure(error, place), null)
  }
  const onClose = (): void => onError(Object.assign(new Error('closed'), { code: 'ECONNRESET' }))
  const settle: DialCallback = (error, ready) => {
    socket.off('close', onClose)
    if (error === null) socket.off('error', onError)
    done(error, ready)
  }
  socket.once('connect', () => {
    connected = true
  })
  socket.once('error', onError)
  socket.once('close', onClose)
  socket.once(secure ? 'secureConnect' : 'connect', () => settle(null, socket))
  return socket
}

function tlsOptions({ host, secureContext }: DialTarget) {
  return {
    // A literal address has no server name to send; its certificate is checked against the address.
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(secureContext === undefined ? {} : { secureContext }),
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.2',
    rejectUnauthorized: true,
  } as const
}
