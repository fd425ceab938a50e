/**
 * Events on their way out: from the record of what has ended (postgres/outgoing-events.ts) to whoever listens
 * beside Belfry. Each is sent at least once; the record is not changed by it.
 */
import type { CloudEvent } from '@belfry/contract'
import type { EndedRecord } from '../domain/cloud-event.ts'

/** All of the record before it has been sent. */
export interface OutgoingPosition {
  readonly number: number
  /** Among those of this number. */
  readonly key: string
  /**
   * Which start of which server it is of. Another, or the same after a crash, may give numbers out again that
   * lie below it.
   */
  readonly server: string
}

export interface OutgoingPage {
  readonly records: readonly EndedRecord[]
  /** Behind this page. */
  readonly next: OutgoingPosition
  /** There is more that may be read now. */
  readonly more: boolean
  /** What had ended by this look has lower numbers; some of it may have to wait for older ones. */
  readonly latest: number
  /**
   * The record has lost numbers since the position was made: nothing was read, and only `position` says where
   * to go on.
   */
  readonly setBack: boolean
  /** Database time, epoch ms. */
  readonly nowMs: number
}

export interface OutgoingEvents {
  /**
   * Where to go on: what was noted, `notedMs` ago. That it is there proves that its number is not given out
   * again. Where nobody ever was, or the number is from another database: now.
   */
  position(): Promise<{ readonly position: OutgoingPosition; readonly notedMs: number }>
  /**
   * At most so many, in the order in which they were committed, or nearly; `stretch` numbers of the record at
   * most.
   */
  read(from: OutgoingPosition, limit: number, stretch: number): Promise<OutgoingPage>
  /** Never goes back, and does nothing where the server is another than that of the position. */
  note(position: OutgoingPosition): Promise<void>
  /** Grows when the record may have lost its end (ports/run-store.ts). */
  doubts(): number
}

/** They are not taken as they are, whoever sends them again; fewer of them might be. */
export class EventsRefused extends Error {
  override readonly name = 'EventsRefused'
  /** Whether the events are at fault for certain: their size, their form. */
  readonly certain: boolean

  constructor(message: string, certain: boolean, options?: ErrorOptions) {
    super(message, options)
    this.certain = certain
  }
}

export interface EventPublisher {
  /** False: nothing is tried. */
  readonly up: boolean
  /**
   * Resolves when they are kept there. Rejects where they are not, or may have been kept in part:
   * `EventsRefused` where it would be no better later. In order for each `key`.
   */
  publish(events: readonly { readonly key: string; readonly event: CloudEvent }[]): Promise<void>
}
