// Storage on this device between visits (IndexedDB): the state of a wearer by model, and a model that the user chose.

const DATABASE = "sight";
const TABLE = "kept";

function transact(mode, act) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const db = opening.result;
      const transaction = db.transaction(TABLE, mode);
      const request = act(transaction.objectStore(TABLE));
      transaction.oncomplete = () => (db.close(), resolve(request.result));
      transaction.onabort = transaction.onerror = () => (db.close(), reject(transaction.error));
    };
  });
}

export const read = (key) => transact("readonly", (table) => table.get(key));
export const write = (key, value) => transact("readwrite", (table) => table.put(value, key));
export const remove = (key) => transact("readwrite", (table) => table.delete(key));
export const removeAll = () => transact("readwrite", (table) => table.clear());
