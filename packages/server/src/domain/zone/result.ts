// An expected outcome as a value: zone data and schedules report what is wrong with their input and never
// throw for it. The caller has to look at `ok` before it can reach either side.

export type Result<T, E> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: E }

export function succeed<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value }
}

export function refuse<E>(error: E): { readonly ok: false; readonly error: E } {
  return { ok: false, error }
}
