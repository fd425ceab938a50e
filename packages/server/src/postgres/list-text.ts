/**
 * Lists as the text of an SQL array, made by us: the driver looks at each element by itself
 * (docs/decisions/0014-hot-path.md).
 */

/** Of ids, numbers, or texts from `quoted`. */
export const listText = (values: readonly (string | number)[]): string => `{${values.join(',')}}`

/** An element that may hold anything. */
export const quoted = (text: string): string => `"${text.replaceAll(/[\\"]/g, '\\$&')}"`

/** The elements of an array of ids or numbers, as Postgres writes it. */
export const listOf = (text: string): string[] => text.slice(1, -1).split(',')
